"""From stored traces to a trained model."""
