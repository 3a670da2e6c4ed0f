"""The one door to models: conversations in our inner form, over whatever wire format an endpoint speaks."""
