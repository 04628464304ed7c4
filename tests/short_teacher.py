"""A short training of the teacher, for commands that have one."""


def teacher_epochs(arguments, epochs, default="weak"):
    """The arguments that shorten the teacher's training; none for a preset that has no teacher."""
    preset = next((argument for argument in arguments[:1] if not argument.startswith("-")), default)
    return ["--teacher-epochs", str(epochs)] * preset.startswith("weak")
