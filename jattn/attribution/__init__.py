"""Leave-one-out attribution: the change in a graph's prediction when a node is removed."""

from jattn.attribution._leave_one_out import LeaveOneOut, leave_one_out
from jattn.attribution._whole_split import leave_one_out_seeds

__all__ = ["LeaveOneOut", "leave_one_out", "leave_one_out_seeds"]
