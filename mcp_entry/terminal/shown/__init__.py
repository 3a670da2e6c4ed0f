"""What a person sees in a terminal: columns, receipts, timelines, plans, pools."""
