"""The documented import path `shared`: re-exports of jaato."""
