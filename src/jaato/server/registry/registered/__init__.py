"""Tools that were put there over HTTP: what they are, who carries out their calls, where they are kept."""
