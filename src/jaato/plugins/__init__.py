"""The tools that come with jaato: one package a domain, independent of each other."""

BUILTIN = {
    "introspection": "jaato.plugins.introspection.plugin:IntrospectionPlugin",
    "file_edit": "jaato.plugins.files.plugin:FilesPlugin",
    "cli": "jaato.plugins.shell.plugin:ShellPlugin",
    "environment": "jaato.plugins.environment.plugin:EnvironmentPlugin",
    "todo": "jaato.plugins.todo.plugin:TodoPlugin",
    "search": "jaato.plugins.search.plugin:SearchPlugin",
    "clarification": "jaato.plugins.clarification.plugin:ClarificationPlugin",
    "calculation": "jaato.plugins.calculation.plugin:CalculationPlugin",
    "data": "jaato.plugins.data.plugin:DataPlugin",
    "archives": "jaato.plugins.archives.plugin:ArchivesPlugin",
    "compare": "jaato.plugins.compare.plugin:ComparePlugin",
    "clock": "jaato.plugins.clock.plugin:ClockPlugin",
    "background": "jaato.plugins.background.plugin:BackgroundPlugin",
    "git": "jaato.plugins.git.plugin:GitPlugin",
    "machine": "jaato.plugins.machine.plugin:MachinePlugin",
    "web": "jaato.plugins.web.plugin:WebPlugin",
    "services": "jaato.plugins.web.services:ServicesPlugin",
    "memory": "jaato.plugins.memory.plugin:MemoryPlugin",
    "template": "jaato.plugins.templates.plugin:TemplatesPlugin",
    "references": "jaato.plugins.references.plugin:ReferencesPlugin",
    "multimodal": "jaato.plugins.images.plugin:ImagesPlugin",
    "skills": "jaato.plugins.skills.plugin:SkillsPlugin",
    "slash_command": "jaato.plugins.skills.plugin:SlashCommandPlugin",
    "session": "jaato.plugins.session.plugin:SessionPlugin",
}
"""The documented name of each plugin and where its class is; the order is the order core tools are declared in."""
