"""Running a kernel on a case: device, memory, one observed call."""
