"""Where everything is put together: registry, executor, runtime, and the faces programs use."""
