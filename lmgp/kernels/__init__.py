"""What a kernel can do."""
