"""Every table and figure of "Evaluating Recurrent Neural Network Explanations", made again."""
