"""What a rule is, and how it applies to a call: arguments are bound, conditions checked, and templates filled."""
