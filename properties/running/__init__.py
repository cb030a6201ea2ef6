"""Running a kernel on a case: device, memory, the interpreter's hooks, one observed call."""
