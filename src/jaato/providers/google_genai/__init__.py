"""The dialect of Gemini, at the Gemini API and at Vertex AI."""
