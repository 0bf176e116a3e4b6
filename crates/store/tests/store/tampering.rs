//! Each way to change the past, done past the store with the file in hand: found, and said where.

use ringfence_store::AuditVerdict;

use crate::support::{Scene, entries};

const UNLOCK: &str = "DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_deleted;";
/// So that nothing but the rows differs.
const LOCK: &str = "CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'no'); END;
                    CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'no'); END;";

async fn scene() -> Scene {
    let scene = Scene::new().await;
    let audit = scene.store.audit();
    audit.append(entries(6)).await.expect("appended");
    audit.anchored().await;
    let verdict = audit.verify(&[]).await.expect("verified");
    assert!(verdict.is_whole(), "{verdict:?}");
    scene
}

async fn after(scene: &Scene, sql: &str) -> AuditVerdict {
    scene.tamper(&format!("{UNLOCK} {sql}; {LOCK}")).await;
    scene.store.audit().verify(&[]).await.expect("verified")
}

fn said(verdict: &AuditVerdict, seq: i64, words: &str) {
    let there = verdict.problems.iter().any(|problem| problem.seq == seq && problem.what.contains(words));
    assert!(there, "no {words:?} at {seq}: {:#?}", verdict.problems);
}

#[tokio::test]
async fn the_database_refuses_changes_by_itself() {
    let scene = scene().await;
    for sql in ["UPDATE audit SET kind = 'x' WHERE seq = 2", "DELETE FROM audit WHERE seq = 2"] {
        let mut connection = scene.attacker().await;
        let refused = sqlx::query(sql).execute(&mut connection).await.expect_err("refused");
        assert!(refused.to_string().contains("append-only"), "{refused}");
    }
    scene.tamper(UNLOCK).await;
    let verdict = scene.store.audit().verify(&[]).await.expect("verified");
    said(&verdict, 0, "audit_is_not_changed");
    said(&verdict, 0, "audit_is_not_deleted");
}

#[tokio::test]
async fn a_trigger_that_is_not_ours_is_found() {
    let scene = scene().await;
    scene.tamper("CREATE TRIGGER mine AFTER INSERT ON audit BEGIN SELECT 1; END").await;
    said(&scene.store.audit().verify(&[]).await.expect("verified"), 0, "not ours");
}

#[tokio::test]
async fn an_edit_of_any_column_is_found() {
    let hex = "'ab'||substr(digest, 3)";
    for (column, value) in [
        ("previous", "'A' || substr(previous, 2)"),
        ("previous", "previous || previous"),
        ("previous", "digest"),
        ("digest", "upper(digest)"),
        ("digest", hex),
        ("at", "at + 1"),
        ("user_name", "'bob'"),
        ("user_name", "user_name || char(0)"),
        ("kind", "'read'"),
        ("target", "'other'"),
        ("target", "NULL"),
        ("decision", "'deny'"),
        ("decision", "''"),
        ("policy_digest", "upper(policy_digest)"),
        ("receipt_digest", "NULL"),
        ("denials", "'[]'"),
        ("denials", "denials || ' '"),
        ("result", "replace(result, '12.5', '12.50')"),
        ("result", "x'00ff'"),
        ("request_id", "'request-2'"),
        ("origin", "'cli'"),
        ("spool_id", "'1'"),
        // What was in one field is in the next.
        ("target", "target || decision, decision = ''"),
        ("request_id", "origin, origin = request_id"),
    ] {
        for seq in [1, 3, 6] {
            let scene = scene().await;
            let verdict =
                after(&scene, &format!("UPDATE audit SET {column} = {value} WHERE seq = {seq}")).await;
            said(&verdict, seq, "edited");
            assert_eq!(verdict.rows, 6);
        }
    }
}

#[tokio::test]
async fn a_deleted_row_is_found_wherever_it_was() {
    for (sql, seq, words) in [
        ("DELETE FROM audit WHERE seq = 1", 2, "row 1 is missing"),
        ("DELETE FROM audit WHERE seq = 3", 4, "row 3 is missing"),
        ("DELETE FROM audit WHERE seq IN (3, 4, 5)", 6, "rows 3 to 5 are missing"),
        ("DELETE FROM audit WHERE seq < 5", 5, "rows 1 to 4 are missing"),
        ("DELETE FROM audit WHERE seq = 6", 6, "tail cut"),
        ("DELETE FROM audit WHERE seq > 2", 6, "tail cut"),
        ("DELETE FROM audit", 6, "tail cut"),
    ] {
        let scene = scene().await;
        said(&after(&scene, sql).await, seq, words);
    }
}

#[tokio::test]
async fn a_row_taken_out_and_the_rest_counted_anew_is_found() {
    let scene = scene().await;
    let verdict = after(
        &scene,
        "DELETE FROM audit WHERE seq = 3;
         UPDATE audit SET seq = 3 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE seq = 5;
         UPDATE audit SET seq = 5 WHERE seq = 6",
    )
    .await;
    said(&verdict, 3, "edited");
    said(&verdict, 3, "chain broken");
    said(&verdict, 6, "tail cut");
}

#[tokio::test]
async fn another_order_is_found() {
    let scene = scene().await;
    let verdict = after(
        &scene,
        "UPDATE audit SET seq = 100 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4;
         UPDATE audit SET seq = 4 WHERE seq = 100",
    )
    .await;
    for seq in [3, 4] {
        said(&verdict, seq, "edited");
        said(&verdict, seq, "chain broken");
    }
    said(&verdict, 5, "chain broken");
}

#[tokio::test]
async fn an_inserted_row_is_found() {
    let copy = |seq: i64| {
        format!(
            "INSERT INTO audit SELECT {seq}, previous, digest, at, user_name, kind, target, decision, policy_digest,
             receipt_digest, denials, result, request_id, origin, spool_id FROM audit WHERE seq = 6"
        )
    };
    for seq in [7, 9, i64::MAX] {
        let scene = scene().await;
        said(&after(&scene, &copy(seq)).await, seq, "edited");
    }
    for seq in [0, -5, i64::MIN] {
        let scene = scene().await;
        let verdict = after(&scene, &copy(seq)).await;
        said(&verdict, seq, "inserted");
        // The true rows are not called false.
        assert!(verdict.problems.iter().all(|problem| problem.seq < 1), "{verdict:?}");
    }
}

#[tokio::test]
async fn an_edit_with_a_digest_computed_anew_breaks_the_chain_behind_it() {
    let scene = scene().await;
    // As good as computed: the digest of a true row with other content, put in whole.
    let other = Scene::new().await;
    let mut forged = entries(6);
    forged[2].user = "mallory".into();
    let rows = other.store.audit().append(forged).await.expect("appended");
    let row = &rows[2];
    let verdict = after(
        &scene,
        &format!("UPDATE audit SET user_name = 'mallory', digest = '{}' WHERE seq = 3", row.digest),
    )
    .await;
    assert_eq!(verdict.problems.len(), 1, "{verdict:?}");
    said(&verdict, 4, "chain broken");
}

#[tokio::test]
async fn a_whole_history_written_anew_is_found_by_the_anchor() {
    let scene = scene().await;
    let other = Scene::new().await;
    let mut forged = entries(8);
    forged[2].user = "mallory".into();
    other.store.audit().append(forged).await.expect("appended");
    let forgery = other.path();
    other.store.clone().close().await;
    let sql = format!(
        "DELETE FROM audit; ATTACH '{}' AS forged; INSERT INTO audit SELECT * FROM forged.audit; DETACH forged",
        forgery.display()
    );
    let verdict = after(&scene, &sql).await;
    assert_eq!(verdict.problems.len(), 1, "{verdict:?}");
    said(&verdict, 6, "rewritten");
}

#[tokio::test]
async fn a_cut_tail_is_found_by_an_anchor_only() {
    let scene = scene().await;
    let elsewhere = scene.directory.path().join("elsewhere.anchor");
    std::fs::copy(scene.anchor(), &elsewhere).expect("a copy");
    // Both the tail and the anchor beside it are taken back to an earlier state.
    let earlier = Scene::new().await;
    earlier.store.audit().append(entries(4)).await.expect("appended");
    earlier.store.audit().anchored().await;
    std::fs::copy(earlier.anchor(), scene.anchor()).expect("put back");
    let verdict = after(&scene, "DELETE FROM audit WHERE seq > 4").await;
    assert!(verdict.is_whole(), "nothing can show this without another anchor: {verdict:?}");
    let verdict = scene.store.audit().verify(std::slice::from_ref(&elsewhere)).await.expect("verified");
    said(&verdict, 6, "tail cut");
    // An anchor that was promised and is not there is a finding too.
    std::fs::remove_file(&elsewhere).expect("removed");
    let verdict = scene.store.audit().verify(&[elsewhere]).await.expect("verified");
    said(&verdict, 0, "is not there");
}
