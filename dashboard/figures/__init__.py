"""Figures: an answer goes in, a Plotly figure comes out. Nothing here asks the store or knows a widget."""
