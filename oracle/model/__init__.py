"""What oracles are asked about: batches, layouts, options, cases, traces, and their inputs by name."""
