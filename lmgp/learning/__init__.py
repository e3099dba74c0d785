"""Learning the kernel and the noise from all rows."""
