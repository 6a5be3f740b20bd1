"""PyTorch: files of `torch.save`, live modules, and runs of neuralhydrology, to a Model."""
