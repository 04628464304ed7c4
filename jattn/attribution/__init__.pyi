from ._leave_one_out import LeaveOneOut, leave_one_out
from ._whole_split import leave_one_out_seeds

__all__ = ["LeaveOneOut", "leave_one_out", "leave_one_out_seeds"]
