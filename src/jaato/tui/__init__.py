"""The full-screen terminal client: a face of the server beside the command line, drawn with Textual."""
