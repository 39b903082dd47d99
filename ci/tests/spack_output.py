"""What Spack 1.1.0 prints when it cannot go on, as recorded; paths shortened."""

NO_SUCH_VERSION = (
    "==> Error: Version requirement 9.9 on openmpi for openmpi cannot match any known version from package.py or externals\n"
)
WRONG_TYPE = "==> Error: /site/spack/packages.yaml:3: 7 is not of type 'array'\n"
NO_YAML = """\
==> Error: error parsing YAML: near /site/spack/packages.yaml, 1, 0: expected the node content, but found '<stream end>'
    while parsing a flow node
expected the node content, but found '<stream end>'
  in "/site/spack/packages.yaml", line 2, column 1
"""
NO_RECIPES = """\
fatal: unable to access 'https://github.com/spack/spack-packages.git/': Could not resolve host: github.com
==> Warning: Error constructing repository '/site/packages': Failed to clone repository builtin
==> Error: no compiler configured, and Spack cannot find working compilers in PATH
"""
LOCKED = """\
==> Error: Timed out waiting for a write lock after 120.277s.
    Made 281 attempts on file: /site/cache/providers/.builtin-specfile_v5-index.json.lock
"""
