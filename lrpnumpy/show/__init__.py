"""Pictures of explanations: in the terminal, in HTML, in matplotlib, in LaTeX."""
