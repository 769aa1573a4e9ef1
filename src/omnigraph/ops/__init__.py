"""The operations of a graph. Each stands alone; what they share lies in the rooms below."""
