"""What happens: the shell around the pure core. Runs programs and actions, and writes what they do."""
