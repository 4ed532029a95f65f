"""Arrays, arguments, placement, dispatch and launch, neutral of any target."""
