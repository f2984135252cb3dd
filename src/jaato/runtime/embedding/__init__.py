"""The interfaces for programs: `Agent`, `JaatoClient`, `ToolExecutor`, and providers in the documented form."""
