"""The conversation as it is drawn: blocks of lines, laid out and painted without a widget for each."""
