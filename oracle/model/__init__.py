"""The data model: batches, layouts, options, cases, traces, and the inputs of a case by name."""
