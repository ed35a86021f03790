"""The floating-point operations of passes."""
