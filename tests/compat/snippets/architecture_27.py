class TemplatePlugin:
    def get_enrichment_priority(self) -> int:
        """Return priority (lower = earlier). Default is 50."""
        return 40  # Run after references (20), before multimodal (60)

    def subscribes_to_prompt_enrichment(self) -> bool:
        return True

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        # Detect code blocks with {{ }} or {% %} syntax
        # Extract to .jaato/templates/
        # Annotate prompt with extraction info
        return PromptEnrichmentResult(prompt=enriched, metadata={...})
