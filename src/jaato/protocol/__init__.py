"""What crosses a wire or a disk: frozen structs and their one codec; no behaviour."""
