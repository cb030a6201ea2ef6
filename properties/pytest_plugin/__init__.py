"""cumae inside pytest: ``conforms_to``, the plugin, its settings."""
