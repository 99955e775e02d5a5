"""Facts about models that are in their code and not in their configs: what is known of a model stands here alone."""
