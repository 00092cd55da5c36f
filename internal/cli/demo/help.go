package demo

const long = `Starts an SFTP server of its own on the loopback address, with keys made for the
occasion, copies files to it and back with the code that cp runs, checks what
has arrived, and says how fast it was. It needs nothing but room for the files
in the directory for temporary files, and removes what it has made.`
