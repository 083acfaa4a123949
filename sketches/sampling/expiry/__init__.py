"""What only the family `integral` needs: `integral_decay`, and which events a known decay lets go (`expiry_sample`)."""
