"""What passes cost besides time: floating-point operations, and energy."""
