"""Image classification: `funcnet train-images`."""
