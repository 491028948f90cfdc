std = "lua54"
max_line_length = 120
ignore = { "211/_.*", "212/_.*" } -- named <close> variables and unused arguments
files["spec"] = { std = "lua54+busted" }
exclude_files = { "build*/**" } -- they hold links to this tree
