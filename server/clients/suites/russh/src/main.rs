//! usage: client PROGRAM. Talks to the sftp server PROGRAM over a pipe, in the working directory, and
//! appends to $RESULTS what worked.

use russh_sftp::client::SftpSession;
use std::{fs, future::Future, io::Write, os::unix::fs::MetadataExt, process::Stdio};
use tokio::{io::AsyncReadExt, io::AsyncWriteExt, process::Command};

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

async fn step(name: &str, work: impl Future<Output = Result>) {
    let line = match work.await {
        Ok(()) => format!("ok {name}\n"),
        Err(err) => format!("FAIL {name} {err:?}\n"),
    };
    print!("{line}");
    let results = std::env::var("RESULTS").unwrap();
    let mut results = fs::OpenOptions::new().append(true).create(true).open(results).unwrap();
    results.write_all(line.as_bytes()).unwrap();
}

fn check(right: bool) -> Result {
    if right { Ok(()) } else { Err("wrong result".into()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let program = std::env::args().nth(1).unwrap();
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let pipe = tokio::io::join(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let s = SftpSession::new(pipe).await?;
    let data: Vec<u8> = (0..3_000_001u32).map(|i| (i / 7) as u8).collect();

    step("put", async {
        let mut file = s.create("put").await?;
        file.write_all(&data).await?;
        file.close().await?;
        check(fs::read("put")? == data)
    }).await;
    step("get", async {
        fs::write("get", &data)?;
        let mut got = Vec::new();
        s.open("get").await?.read_to_end(&mut got).await?;
        check(got == data)
    }).await;
    step("many-handles", async {
        fs::write("handles", "x")?;
        let mut files = Vec::new();
        for _ in 0..300 { files.push(s.open("handles").await?); }
        for file in &files { check(file.metadata().await?.size == Some(1))?; }
        Ok(())
    }).await;
    step("list", async {
        fs::create_dir("dir")?;
        for i in 0..500 { fs::write(format!("dir/{i}"), "")?; }
        check(s.read_dir("dir").await?.count() == 500)
    }).await;
    step("rename", async {
        fs::write("from", "")?;
        s.rename("from", "to").await?;
        check(fs::exists("to")? && !fs::exists("from")?)
    }).await;
    step("hardlink", async {
        fs::write("one", "")?;
        check(s.hardlink("one", "two").await?)?;
        check(fs::metadata("two")?.nlink() == 2)
    }).await;
    step("readlink", async {
        std::os::unix::fs::symlink("target", "link")?;
        check(s.read_link("link").await? == "target")
    }).await;
    step("attributes", async {
        let mut attrs = s.metadata("get").await?;
        check(attrs.size == Some(data.len() as u64))?;
        attrs.permissions = Some(0o100640);
        attrs.mtime = Some(1_100_000_000);
        s.set_metadata("get", attrs).await?;
        let now = fs::metadata("get")?;
        check(now.mode() == 0o100640 && now.mtime() == 1_100_000_000)
    }).await;
    step("directories", async {
        s.create_dir("made").await?;
        s.remove_dir("made").await?;
        check(!fs::exists("made")?)
    }).await;
    step("remove", async {
        fs::write("gone", "")?;
        s.remove_file("gone").await?;
        check(!fs::exists("gone")?)
    }).await;
    step("realpath", async {
        let here = std::env::current_dir()?;
        check(s.canonicalize(".").await? == here.to_str().unwrap())
    }).await;
    step("statvfs", async { check(s.fs_info(".").await?.is_some()) }).await;
    step("missing", async { check(!s.try_exists("missing").await?) }).await;
    s.close().await?;
    Ok(())
}
