"""The colors that all plots share; matplotlib is not needed to know them."""

ATTENTION_COLORS = ("#e3edf5", "#7fb2d6", "#2a6f97", "#0b2540")  # from none to the most of a graph
TARGET, DROPPED = "#e4572e", "#a9a9a9"
CURVES = ("#2a6f97", "#e07a1f", "#4c956c", "#8e5ea2", "#c1436d")  # one per pooling layer, subset or run
