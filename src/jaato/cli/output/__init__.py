"""What commands print: answers, events, tables, transcripts."""
