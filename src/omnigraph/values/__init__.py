"""Public values, each declared once: what graphs return, and what travels over HTTP."""
