"""What the package stands on: tables, dense algebra, memory, threads, lazy imports and progress."""
