"""ONNX files to a Model, without the onnx package."""
