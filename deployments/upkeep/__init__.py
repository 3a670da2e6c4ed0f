"""What the keeper looks after while the stack runs: dead runs, left slots, queues, trees, receipts of the lost."""
