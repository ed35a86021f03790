"""What sessions have in common, whatever runs their passes."""
