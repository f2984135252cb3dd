"""The interactive session: lines, slash commands, questions."""
