package demo

const long = `Starts an SFTP server on the loopback address with temporary keys, copies files to it
and back with the code that cp uses, verifies them, and prints the speed. It needs
only space for the files in the temporary directory, and cleans up after itself.`
