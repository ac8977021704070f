"""Results of jobs, as the values of XComs."""
