"""What is near: centroids and rows around them."""
