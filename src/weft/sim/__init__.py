"""What would happen: one event simulator, compiled and readable, for plans, rules, policies and learners."""
