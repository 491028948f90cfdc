$ ett calibrate
ett: calibrate: wanted CLUSTER FOLDER ...; `ett calibrate --help` says more
?2

$ ett calibrate perlmuter x --source y
ett: unknown cluster 'perlmuter'; did you mean 'perlmutter'?
?1

$ ett calibrate dgx_a100 . --source y
ett: calibrate: cluster dgx_a100 has no profile folder of its own; give --into FOLDER
?2

$ ett calibrate perlmutter /nowhere --source y
ett: calibrate: '/nowhere' is not a folder
?1
